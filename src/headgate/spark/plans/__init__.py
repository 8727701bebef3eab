"""Each kind of operator as a Spark plan over blocks of tuples."""
