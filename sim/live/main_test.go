package live

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main()
	if os.Getenv(parentVariable) != "" {
		fmt.Fprintln(os.Stderr, parent())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}
