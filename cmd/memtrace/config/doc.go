// Package config tells what flags are where the command line does not give them: from variables, and from files in YAML.
//
// A Schema lists the flags of all commands. Parse reads a file and Variables reads an environment, both into entries: what is
// said of a flag, and where. Resolve then says what is in force. Which files are read, and whether they may be trusted, is
// the caller's to say.
package config
