"""What users write and read: documents, numbers, JSON, HTML, and the files that hold them."""
