"""Studies: the examples, tables and figures of the papers computed anew, and measurements on Spark."""
