// Package jvmattach asks a running JVM for the names of the code that it compiled, by HotSpot's attach protocol, as jcmd does
// (src/hotspot/os/posix/attachListener_posix.cpp; attach.go), without a JDK on this machine.
//
//   - A JVM that was asked before listens on /tmp/.java_pidN of its own root, N being its PID there.
//   - Another begins to listen when it gets SIGQUIT and finds a file /tmp/.attach_pidN, which belongs to its user.
//     SIGQUIT ends a process that has no handler for it: so it is sent to none, by a pidfd, and once. The file stays
//     until the JVM listens (wake.go).
//   - Compiler.perfmap, of JDK 17 and newer, has it write /tmp/perf-N.map (perfmap.go).
//
// Everybody may write to /tmp. What is not a socket of the JVM's user, or is answered by another process, is not talked to; the JVM
// is not made to write to what is no file of its own.
package jvmattach
