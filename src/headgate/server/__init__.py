"""The server: an HTTP interface to a session and its run, and the dashboard."""
