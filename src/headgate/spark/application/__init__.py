"""The Spark application: Java, its JVM, sessions, and the Python workers of both."""
