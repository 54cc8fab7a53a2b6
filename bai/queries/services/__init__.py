"""Services: `facts` is what is known of each, `listing` a part of `bai get`, `explanation` of `bai explain`;
`undo` chooses a generation."""
