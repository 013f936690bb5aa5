package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
)

// Take is told one thing more. It is the one way in: what a Report says depends on the Config and on
// what Take was given, in that order, and on nothing else.
func (a *Analyzer) Take(in input.Input) {
	switch in.(type) {
	case input.Names, input.PoolName:
	default:
		a.drafted = nil
	}
	switch v := in.(type) {
	case *input.Events:
		a.apply(v.Events)
	case input.Checkpoint:
		a.from = a.since(v.At)
	case input.Carried:
		a.carry(v)
	case *input.Held:
		a.hold(v.Events)
	case input.Stack:
		a.addStack(v.Stack)
	case input.Started:
		a.addProcess(v.ProcessInfo)
	case input.Described:
		a.describe(v.ProcessInfo)
	case input.ExitCode:
		a.setExitCode(v.PID, v.Code)
	case input.Loss:
		a.setLoss(v.Loss)
	case input.ProcessLoss:
		a.addProcessLoss(v)
	case input.LeftOut:
		a.leftOut = report.LeftOut(v)
	case input.Pause:
		a.pause()
	case input.Mapped:
		a.applyMapped(v)
	case input.Touches:
		a.applyTouches(&v)
	case input.Memory:
		a.correlate(&v)
	case input.GoStacks:
		a.takeGoStacks(v)
	case input.GoHeap:
		a.takeGoHeap(v)
	case input.Verdicts:
		a.conclude(&v)
	case input.Paused:
		a.setPause(v)
	case input.Repair:
		a.repair(v)
	case input.FreeWalk:
		a.walked(v)
	case input.Instant:
		a.mark(v.Now)
	case input.Names:
		a.takeNames(v)
	case input.PoolName:
		a.namePool(v)
	case input.Window:
		a.closeWindow(v.Now)
	}
}
