package regional_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorate/quorate/regional"
	"github.com/quorate/quorate/regional/memory"
)

const rules = `
domain: shop
descriptors:
- key: action
  value: login
  rate_limit: {unit: day, requests_per_unit: 2, quota: {standing_share: 1}}
- key: crawl
  rate_limit: {unit: minute, requests_per_unit: 1, quota: {algorithm: leaky_bucket, shape: true, burst: 3, standing_share: 1}}
- key: user
  rate_limit: {unit: second, requests_per_unit: 1000, quota: {burst: 1, standing_share: 1}}
`

// open opens an agent that serves rules alone, from memory.
func open() *regional.Agent {
	store, err := memory.WithRules("here", rules)
	if err != nil {
		log.Fatal(err)
	}
	agent, err := regional.Open(context.Background(), regional.Config{Region: "here", Alone: true, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	return agent
}

// An application with a coordinator and a Redis of its region has an agent inside.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	agent, err := regional.Open(ctx, regional.Config{
		Region:       "eu",
		Coordinators: []string{"coordinator-1:7600", "coordinator-2:7600", "coordinator-3:7600"},
		Redis:        "redis://127.0.0.1:6379",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
}

// A test of an application needs neither.
func ExampleOpen_alone() {
	store, err := memory.WithRules("here", rules)
	if err != nil {
		log.Fatal(err)
	}
	agent, err := regional.Open(context.Background(), regional.Config{Region: "here", Alone: true, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(agent.NotReady(), agent.Close())
	// Output: [] <nil>
}

func ExampleLimiter() {
	agent := open()
	defer agent.Close()
	logins, err := agent.Limiter("shop", regional.Entry{Key: "action", Value: "login"})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := logins.Allow(context.Background())
		switch {
		case err != nil:
			log.Fatal(err) // nothing was decided
		case d.Over:
			fmt.Println("denied:", d.Statuses[0].Rule.ID)
		default:
			fmt.Println("served,", d.Statuses[0].Remaining, "left")
		}
	}
	// Output:
	// served, 1 left
	// served, 0 left
	// denied: shop/action=login
}

func ExampleKeyed() {
	agent := open()
	defer agent.Close()
	perUser, err := regional.NewKeyed(agent, "shop", func(to []regional.Entry, user string) []regional.Entry {
		return append(to, regional.Entry{Key: "user", Value: user})
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range []string{"ann", "bob"} {
		d, err := perUser.Allow(context.Background(), user)
		fmt.Println(user, d.Over, err)
	}
	// Output:
	// ann false <nil>
	// bob false <nil>
}

// A shaped limit, one page a minute here, says when each request has its turn. Wait
// waits for that; who would rather do so otherwise asks with Allow.
func ExampleLimiter_Allow_shaped() {
	agent := open()
	defer agent.Close()
	crawler, err := agent.Limiter("shop", regional.Entry{Key: "crawl", Value: "example.org"})
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		d, err := crawler.Allow(context.Background())
		switch {
		case err != nil:
			log.Fatal(err)
		case d.Over:
			fmt.Println("too many wait already")
		default:
			fmt.Println("in", d.Delay.Round(time.Minute))
		}
	}
	// Output:
	// in 0s
	// in 1m0s
	// in 2m0s
	// too many wait already
}

func ExampleLimiter_WaitN() {
	agent := open()
	defer agent.Close()
	logins, err := agent.Limiter("shop", regional.Entry{Key: "action", Value: "login"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, n := range []int{2, 1, 3} {
		switch err := logins.WaitN(ctx, n); {
		case errors.Is(err, regional.ErrDeadline):
			fmt.Println("not within a minute")
		case errors.Is(err, regional.ErrNever):
			fmt.Println("never")
		default:
			fmt.Println(err)
		}
	}
	// Output:
	// <nil>
	// not within a minute
	// never
}

func ExampleLimiter_ReserveN() {
	agent := open()
	defer agent.Close()
	logins, err := agent.Limiter("shop", regional.Entry{Key: "action", Value: "login"})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range []int{2, 1, 3} {
		r, err := logins.ReserveN(context.Background(), n)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.OK(), r.Delay() > 0, r.Delay() == regional.InfDuration, r.Cancel())
	}
	// Output:
	// true false false 2
	// false true false 0
	// false true true 0
}
