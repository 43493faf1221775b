// Package logging sets up the log of a quorate binary: log/slog on standard
// error, coloured on a terminal, key=value lines elsewhere, JSON when asked for.
//
// Standard output stays free for data. Colour never carries meaning by itself,
// and NO_COLOR switches it off.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/lmittmann/tint"
)

// Options are the two settings every binary has. Embed it in the binary's
// settings struct.
type Options struct {
	Level  string `key:"log_level" usage:"least severe messages to log: debug, info, warn or error"`
	Format string `key:"log_format" usage:"log format: auto (colours on a terminal, else text), text or json"`
}

// Default returns info messages in the automatic format.
func Default() Options { return Options{Level: "info", Format: "auto"} }

// New returns a logger that writes to w.
func New(w io.Writer, o Options) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.Level)); err != nil {
		return nil, fmt.Errorf("log_level: %q is none of debug, info, warn, error", o.Level)
	}
	plain := &slog.HandlerOptions{Level: level}
	switch strings.ToLower(o.Format) {
	case "json":
		return slog.New(slog.NewJSONHandler(w, plain)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, plain)), nil
	case "auto", "":
		if !Terminal(w) {
			return slog.New(slog.NewTextHandler(w, plain)), nil
		}
		return slog.New(tint.NewTextHandler(w, &tint.Options{
			Level: level, TimeFormat: time.TimeOnly, NoColor: !Colour(w),
		})), nil
	}
	return nil, fmt.Errorf("log_format: %q is none of auto, text, json", o.Format)
}

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// Colour reports whether w may be written to in colour: a terminal, and neither
// NO_COLOR nor TERM=dumb forbids it.
func Colour(w io.Writer) bool {
	return Terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
