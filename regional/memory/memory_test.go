package memory

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// take is a take of one token from a full bucket of 3 a minute.
func take(s *Store, key string) enforce.Take {
	st := s.bucket.State(clock())
	share := quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(3), Per: 60 * quota.Second}, Burst: quota.Whole(3)}
	return enforce.Take{Incarnation: st.Incarnation, Config: st.Config, Asks: []bucket.Ask{
		{Key: quota.Key(key), Cost: quota.Token, Standing: bucket.Standing{Capacity: share, Base: share.Burst}},
	}}
}

func TestK59ParallelTakesShareTheBucket(t *testing.T) {
	s := New()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	ask := take(s, "a")
	for range 50 {
		wg.Go(func() {
			res, err := s.Take(t.Context(), ask)
			if err != nil {
				t.Error(err)
			}
			if res.Admitted {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if have := admitted.Load(); have != 3 {
		t.Errorf("want 3 admitted, have %d", have)
	}
}

func TestTakesThatAreRefused(t *testing.T) {
	s := New()
	other, newer, absurd := take(s, "a"), take(s, "a"), take(s, "a")
	other.Incarnation, newer.Config, absurd.Asks[0].Cost = "other", 1, -quota.MaxTokens-1
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for why, c := range map[string]struct {
		ctx  context.Context
		take enforce.Take
		want error
	}{
		"another incarnation":   {t.Context(), other, enforce.ErrStale},
		"another configuration": {t.Context(), newer, enforce.ErrStale},
		"an absurd refund":      {t.Context(), absurd, bucket.ErrRange},
		"nobody waits for it":   {gone, take(s, "a"), enforce.ErrStoreDown},
	} {
		if _, err := s.Take(c.ctx, c.take); !errors.Is(err, c.want) {
			t.Errorf("%s: want %v, have %v", why, c.want, err)
		}
	}
	if err := s.Charge(t.Context(), "other", nil); !errors.Is(err, enforce.ErrStale) {
		t.Errorf("charge in another incarnation: have %v", err)
	}
	if err := s.Renew(gone, "", 1, 0); !errors.Is(err, enforce.ErrStoreDown) {
		t.Errorf("renew that nobody waits for: have %v", err)
	}
	if n := s.bucket.Len(); n != 0 {
		t.Errorf("%d records are left of what was refused", n)
	}
}

// K96: what keys left behind goes when their buckets are full, although nothing but
// denials comes later.
func TestK96MemoryOfKeysComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		for i := range 1000 {
			if _, err := s.Take(t.Context(), take(s, string(rune('a'+i)))); err != nil {
				t.Fatal(err)
			}
		}
		impossible := take(s, "never")
		impossible.Asks[0].Cost = quota.Whole(4)
		for range 20 {
			time.Sleep(30 * time.Second)
			if res, err := s.Take(t.Context(), impossible); err != nil || res.Admitted {
				t.Fatalf("have %+v, %v", res, err)
			}
		}
		if n := s.bucket.Len(); n != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}

func TestWithRulesNamesTheMistake(t *testing.T) {
	_, err := WithRules("here", "domain: shop\ndescriptors:\n- {kee: user}\n")
	if err == nil || !strings.Contains(err.Error(), "rules:3:") || !strings.Contains(err.Error(), "kee") {
		t.Errorf("have %v", err)
	}
}
