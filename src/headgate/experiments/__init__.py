"""What the papers show, computed: one file a paper, its examples, tables and figures compared with ours."""
