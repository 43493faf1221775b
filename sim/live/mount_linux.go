package live

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mountDisk mounts an empty file system of so many bytes.
func mountDisk(path string, size int64) error {
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("mount a tmpfs of %d bytes at %s (this needs root and a machine that allows it): %w", size, path, err)
	}
	return nil
}

// unmount detaches a file system, also while somebody still uses it.
func unmount(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}
