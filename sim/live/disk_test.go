package live

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A leader whose disk is full cannot commit: another one leads until there is
// space again, and then the node is one of three as before.
func TestLeaderWithAFullDiskIsReplaced(t *testing.T) {
	t.Parallel()
	if err := CanMount(); err != nil {
		t.Skipf("no disk can be filled here: %v", err)
	}
	w := start(t, Options{Regions: []RegionSpec{{Name: "eu"}, {Name: "us"}}, SmallDisks: []string{"n1", "n2", "n3"}})
	tr := w.Track(orders, limitOf(perSecond))
	load(t, w, tr, "eu", 150)
	load(t, w, tr, "us", 150)
	admits(t, tr, "eu", 100)
	full, err := w.AwaitLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := full.FillDisk(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	until(t, "another leader", func() bool {
		leader, err := w.Leader(ctx)
		return err == nil && leader != full
	})
	admits(t, tr, "us", 200)
	if err := full.FreeDisk(); err != nil {
		t.Fatal(err)
	}
	until(t, "the node has caught up", func() bool {
		status, err := full.Status(ctx)
		return err == nil && status.GetReady()
	})
	admits(t, tr, "eu", 200)
	kept(t, tr)
}

func TestDiskOfNobodyIsNotFilled(t *testing.T) {
	c := &Coordinator{Name: "n1", process: &process{}}
	if err := c.FillDisk(); !errors.Is(err, ErrOptions) {
		t.Errorf("have %v, want %v", err, ErrOptions)
	}
}
