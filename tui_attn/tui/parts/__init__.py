"""What the main screen asks and shows, a part for each kind of question."""
