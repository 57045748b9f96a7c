"""What the classes for the frameworks share: their settings, one engine for all copies, names, and what traces and answers say."""
