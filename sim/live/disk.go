package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// diskSize is what a coordinator with a disk of its own has: many times what a
// short run writes, and small enough for any machine's memory.
const diskSize = 16 << 20

// filler is the file that fills a disk.
const filler = "filler"

// CanMount returns why no coordinator can have a disk of its own here, nil if it can.
func CanMount() error {
	dir, err := os.MkdirTemp("", "quorate-live-disk-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	err = mountDisk(dir, diskSize)
	if err == nil {
		err = unmount(dir)
	}
	return errors.Join(err, os.Remove(dir))
}

// buildDisk mounts a disk for a coordinator that is to have one.
func (w *World) buildDisk(c *Coordinator) error {
	if !slices.Contains(w.opts.SmallDisks, c.Name) {
		return nil
	}
	disk := filepath.Join(w.dir, "disk-"+c.Name)
	if err := os.MkdirAll(disk, 0o755); err != nil {
		return fmt.Errorf("make a place for the disk of %s: %w", c.Name, err)
	}
	// The reaper hears of it first: nothing may come between.
	if err := w.reaper.tell(mounted{Path: disk}); err != nil {
		return err
	}
	if err := mountDisk(disk, diskSize); err != nil {
		return errors.Join(fmt.Errorf("disk of %s: %w", c.Name, err), w.reaper.tell(mounted{disk, true}))
	}
	w.closers = append(w.closers, func() error {
		return errors.Join(unmount(disk), w.reaper.tell(mounted{disk, true}))
	})
	c.disk, c.dataDir = disk, filepath.Join(disk, "data")
	return nil
}

// FillDisk leaves no byte free on the coordinator's disk: every write that needs
// space fails from now on. The node may end by itself, which Died does not report
// until FreeDisk has started it again.
func (c *Coordinator) FillDisk() error {
	if c.disk == "" {
		return fmt.Errorf("fill the disk of %s: %w: it has none of its own", c.Name, ErrOptions)
	}
	c.process.mayEnd(true)
	f, err := os.OpenFile(filepath.Join(c.disk, filler), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("fill the disk of %s: %w", c.Name, err)
	}
	defer func() { _ = f.Close() }() // what counts is that it was written
	for size := 1 << 20; size > 0; {
		switch _, err := f.Write(make([]byte, size)); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 16
		case err != nil:
			return fmt.Errorf("fill the disk of %s: %w", c.Name, err)
		}
	}
	return nil
}

// FreeDisk gives the space back and starts the node again if it has ended, as
// whoever runs it would.
func (c *Coordinator) FreeDisk() error {
	if err := c.emptyDisk(); err != nil {
		return fmt.Errorf("free the disk of %s: %w", c.Name, err)
	}
	defer c.process.mayEnd(false)
	if c.Running() {
		return nil
	}
	return c.Restart()
}

// emptyDisk removes the filler; it is no error when there is none.
func (c *Coordinator) emptyDisk() error {
	if c.disk == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(c.disk, filler)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
