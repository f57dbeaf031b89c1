"""From the command line to objects: settings are checked once, files found, objects built."""
