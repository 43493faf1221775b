package raftnode

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// newRaftLogger returns a logger for raft that writes to l.
func newRaftLogger(l *slog.Logger) hclog.Logger {
	// Trace lets all through: the slog handler decides what is printed.
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	logger.RegisterSink(logSink{l})
	return logger
}

type logSink struct{ logger *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s logSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Info:
		to = slog.LevelInfo
	case hclog.Warn:
		to = slog.LevelWarn
	case hclog.Error:
		to = slog.LevelError
	}
	ctx := context.Background()
	if !s.logger.Enabled(ctx, to) {
		return
	}
	for i, a := range args {
		// A format with its arguments is a value that only hclog prints.
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			format, _ := f[0].(string)
			args[i] = fmt.Sprintf(format, f[1:]...)
		}
	}
	s.logger.Log(ctx, to, msg, append([]any{slog.String("component", name)}, args...)...)
}
