// Package top shows the memory of the whole machine: processes, programs,
// threads, the memory map, sharing, NUMA nodes, cgroups, components and
// mappings, live on a terminal or once as text, CSV or JSON.
//
// A Source takes Snapshots; a view turns a Snapshot into a Table, whose cells
// are made only as they are shown; a Screen (the live terminal view) or Write
// shows the Table. A figure that could not be read says why, and is never 0.
//
// Names of processes, files and cgroups come from whoever runs them: they are
// made printable where they are shown. All of the package is for one
// goroutine at a time, a Source excepted, which the Screen calls from another.
package top
