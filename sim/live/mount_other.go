//go:build !linux

package live

import (
	"errors"
	"fmt"
)

func mountDisk(string, int64) error {
	return fmt.Errorf("mount a tmpfs: %w on this system", errors.ErrUnsupported)
}

func unmount(string) error { return nil }
