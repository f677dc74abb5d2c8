"""What tests share: cases, parties, hubs, pages and references that more than one file of tests builds on."""
