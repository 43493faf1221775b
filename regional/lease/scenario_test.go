package lease

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what happens now")

// Scenarios are little plays: a command a line, and below it, indented, what the
// keeper says and what becomes of the region's store.
//
//	advance 4s [mono=|boot=|real=|store=±d]  time passes; a clock may jump beside it
//	sync [replaces=id]                       the agent reads the store and sends a request
//	answer [seq=] [session=] [ttl=] …        the coordinator answers the last request
//	again                                    the last answer arrives once more
//	push / failed / redirected / leave [last]  what their names say
//	next [usage] [urgent] [applied]          when the next sync is due
//	incarnate id, reset id, renew session=   another agent, or an operator, did this; reset
//	                                         begins a life of the store that has lost everything
//	status                                   the region and the agent's phase
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			have := play(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if have != string(text) {
				t.Errorf("%s differs; run with -update and review the diff. Have:\n%s", file, have)
			}
		})
	}
}

type stage struct {
	t      *testing.T
	clock  Clock
	redis  quota.Micros
	store  *bucket.Store
	keeper *Keeper
	last   quota.SyncResponse
	out    *strings.Builder
}

func play(t *testing.T, text string) string {
	s := &stage{
		t: t, out: &strings.Builder{}, store: bucket.NewStore(),
		clock: Clock{Mono: 100 * quota.Second, Boot: 200 * quota.Second, Real: 300 * quota.Second},
		redis: 1000 * quota.Second,
		keeper: New(Config{
			Region: "eu", Agent: "eu-1", Timing: quota.DefaultTiming(),
			Rand: func() float64 { return 0.5 },
		}),
	}
	s.store.Incarnate(s.redis, "i1")
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "  "):
			continue // what happened when this was written
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			s.out.WriteString(line)
		default:
			s.out.WriteString(line)
			s.run(strings.TrimSuffix(line, "\n"))
		}
	}
	return s.out.String()
}

func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.out, "  "+format+"\n", args...) }

func (s *stage) run(line string) {
	words := strings.Fields(line)
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	switch words[0] {
	case "advance":
		d := s.micros(words[1])
		s.clock.Mono += d + s.micros(args["mono"])
		s.clock.Boot += d + s.micros(args["boot"])
		s.clock.Real += d + s.micros(args["real"])
		s.redis += d + s.micros(args["store"])
	case "sync":
		s.sync(args)
	case "answer":
		s.last = s.response(args)
		s.receive()
	case "push":
		r := s.response(args)
		s.last = quota.SyncResponse{Cluster: r.Cluster, Config: r.Config, Assignments: r.Assignments}
		s.receive()
	case "again":
		s.receive()
	case "failed":
		s.keeper.Failed(s.clock)
	case "redirected":
		s.keeper.Redirected(s.clock)
	case "leave":
		s.keeper.Leave(s.clock, len(words) > 1 && words[1] == "last")
	case "next":
		_, usage := args["usage"]
		_, urgent := args["urgent"]
		_, applied := args["applied"]
		s.say("in %v", s.keeper.NextSync(s.clock, Pending{Usage: usage, Urgent: urgent, Applied: applied}).Duration())
	case "incarnate":
		s.store.Incarnate(s.redis, words[1])
	case "reset":
		s.store = bucket.NewStore()
		s.store.Incarnate(s.redis, words[1])
	case "renew":
		if err := s.store.Renew(s.redis, "i1", quota.SessionID(s.number(args["session"])), s.redis+10*quota.Second); err != nil {
			s.say("error: %v", err)
		}
	case "status":
		s.status()
	default:
		s.t.Fatalf("unknown command %q", line)
	}
}

func (s *stage) sync(args map[string]string) {
	st := s.store.State(s.redis)
	req := s.keeper.Request(s.clock, st, Report{Replaces: args["replaces"], Config: st.Config})
	text := fmt.Sprintf("-> %d %s/%s incarnation %s session %d", req.Seq, req.Region, req.Agent, req.Incarnation.ID, req.Session)
	if req.Cluster != "" {
		text += " cluster " + req.Cluster
	}
	if req.Incarnation.Replaces != "" {
		text += " replaces " + req.Incarnation.Replaces
	}
	if req.Config != 0 {
		text += fmt.Sprintf(" config %d", req.Config)
	}
	if req.Drop {
		text += " drop"
		s.store.Drop(req.Session)
	}
	if req.Leaving {
		text += " leaving"
	}
	s.say("%s", text)
}

func (s *stage) response(args map[string]string) quota.SyncResponse {
	r := quota.SyncResponse{Seq: s.keeper.seq, Cluster: "c1", TTL: 10 * time.Second, Agents: 1}
	for k, v := range args {
		switch k {
		case "seq":
			r.Seq = s.number(v)
		case "cluster":
			r.Cluster = v
		case "session":
			r.Session = quota.SessionID(s.number(v))
		case "ttl":
			r.TTL = s.micros(v).Duration()
		case "first":
			r.First = true
		case "agents":
			r.Agents = int(s.number(v))
		case "config":
			r.Config = &quota.Config{Version: s.number(v)}
		case "assign":
			r.Assignments = []quota.Assignment{{Key: "k", Session: r.Session, Epoch: quota.Epoch(s.number(v))}}
		case "refuse":
			codes := map[string]quota.RefusalCode{
				"unknown": quota.RefusedUnknownRegion, "second": quota.RefusedSecondStore,
				"cluster": quota.RefusedWrongCluster, "busy": quota.RefusedBusy, "other": 99,
			}
			r.Refusal = &quota.Refusal{Code: codes[v], Message: "words of the coordinator"}
		default:
			s.t.Fatalf("unknown argument %q", k)
		}
	}
	return r
}

func (s *stage) receive() {
	e, err := s.keeper.Response(s.clock, s.last)
	if err != nil {
		s.say("error: %v", err)
	}
	if e.Renew != nil {
		s.say("renew session %d for %v", e.Renew.Session, (e.Renew.Deadline - s.redis).Duration())
		err := s.store.Renew(s.redis, e.Incarnation, e.Renew.Session, e.Renew.Deadline)
		if e.Renew.First {
			err = errors.Join(err, s.store.MarkFirst(e.Incarnation))
		}
		if err != nil {
			s.say("store: %v", err)
		}
	}
	if e.Adopt != nil {
		s.say("adopt config %d", e.Adopt.Version)
		if err := s.store.Adopt(s.redis, e.Incarnation, e.Adopt.Version, nil); err != nil {
			s.say("store: %v", err)
		}
	}
	for _, a := range e.Apply {
		s.say("apply %s epoch %d", a.Key, a.Epoch)
	}
}

func (s *stage) status() {
	st := s.store.State(s.redis)
	left := "on its standing shares"
	if st.Session != 0 && st.Now < st.Deadline {
		left = fmt.Sprintf("on leases for %v", (st.Deadline - st.Now).Duration())
	}
	s.say("region: session %d, %s; agent: %s", st.Session, left, s.keeper.Phase(s.clock))
}

func (s *stage) micros(v string) quota.Micros {
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return quota.MicrosOf(d)
}

func (s *stage) number(v string) uint64 {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}
