package live

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// The reaper is the first process of a World. All others join its process group,
// and it waits for the end of its parent, which it learns from its standard input.
// Then it kills the group, itself with it: also nodes and servers that are stopped
// and could not end by themselves.

// mounted tells the reaper of a file system that must not outlive the World.
type mounted struct {
	Path string
	Gone bool // it is unmounted again
}

// reap waits for the parent's end. It returns only when something is wrong.
func reap(in io.Reader, log *slog.Logger) error {
	// The kernel hangs up on a group whose last parent has died while one of it is stopped.
	signal.Ignore(syscall.SIGHUP)
	mounts := map[string]bool{}
	for d := json.NewDecoder(in); ; {
		var m mounted
		if d.Decode(&m) != nil {
			break // however it ends, the parent is gone
		}
		mounts[m.Path] = true
		if m.Gone {
			delete(mounts, m.Path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(mounts)) {
		if err := unmount(path); err != nil {
			log.Error("unmount a disk of a node", "err", err)
		}
	}
	if own, group := os.Getpid(), syscall.Getpgrp(); own != group {
		return fmt.Errorf("process %d is in the group %d, which is not its own, and kills nobody", own, group)
	}
	if err := syscall.Kill(0, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the process group: %w", err)
	}
	return nil
}

// startReaper starts the reaper, whose group everything else joins.
func (w *World) startReaper() error {
	w.reaper = &process{role: roleReaper, name: "reaper", spec: struct{}{}, log: w.logPath("reaper")}
	if err := w.reaper.start(); err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { w.reaper.kill(); return nil })
	return nil
}

// group is the process group of everything that the World starts.
func (w *World) group() int { return w.reaper.cmd.Process.Pid }
