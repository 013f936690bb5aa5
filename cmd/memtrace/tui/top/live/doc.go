// Package live takes the Snapshots of memtrace top from the machine that it
// runs on.
//
// Each view costs what it needs and no more: processes are walked only where
// their PSS is shown, mappings are read only of the process that is looked at.
package live
