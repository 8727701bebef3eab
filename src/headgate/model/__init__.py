"""The vocabulary of Headgate. Imports nothing of ours but the errors."""
