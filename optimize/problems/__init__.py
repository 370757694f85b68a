"""What is searched: the numbers that vary, and how members are judged."""
