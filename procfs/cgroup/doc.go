// Package cgroup reads the memory of control groups, of version 1 and 2
// (cgroups(7); Documentation/admin-guide/cgroup-v2.rst).
//
//	h, err := cgroup.Open("/sys/fs/cgroup")
//	groups, err := h.Groups()                // or a procfs.Process's Cgroup
//	var g cgroup.Group
//	err = h.Read("/system.slice/a.service", &g)
//
// Each figure has an outcome of its own, as kernels and versions differ in
// what they have; a limit that isn't set is Unlimited. Reading takes no
// privileges, as a rule.
package cgroup
