package planner

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
)

var thousand = document(1000, "second", 1000, "0.1")

func TestFirstSyncOpensTheSession(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu")
	resp := d.sync("eu")
	if resp.Refusal != nil || resp.Session == 0 || resp.TTL != 10*time.Second || !resp.First || resp.Agents != 1 || resp.Config != nil {
		t.Errorf("have %+v", resp)
	}
	if resp := d.sync("eu", func(r *quota.SyncRequest) { r.Config = 0 }); resp.Config == nil || resp.Config.Version != d.l.Current().Version {
		t.Errorf("a region without configuration gets it: have %+v", resp.Config)
	}
}

func TestRefusals(t *testing.T) {
	d := newDesk(t, thousand, "eu")
	for _, tt := range []struct {
		reason string
		req    quota.SyncRequest
		code   quota.RefusalCode
		words  []string
	}{
		{"nobody registered the region", d.request("mars"), quota.RefusedUnknownRegion, []string{"mars", "regions add"}},
		{"an agent of another cluster", d.request("eu", func(r *quota.SyncRequest) { r.Cluster = "prod" }), quota.RefusedWrongCluster, []string{"test", "prod"}},
		{"a second store behind one region name", d.request("eu", replacing("new-store", "")), quota.RefusedSecondStore, []string{"eu-store", "new-store"}},
		{"replacing a store that is not the live one", d.request("eu", replacing("new-store", "older-store")), quota.RefusedSecondStore, []string{"eu-store", "new-store"}},
	} {
		before := d.term.Receive(d.at(), d.l, tt.req)
		resp := d.term.Answer(d.at(), d.at(), d.l, tt.req)
		if len(before) != 0 || resp.Refusal == nil || resp.Refusal.Code != tt.code || resp.Session != 0 || resp.Seq != tt.req.Seq {
			t.Errorf("%s: have %v, %+v", tt.reason, before, resp)
			continue
		}
		for _, w := range tt.words {
			if !strings.Contains(resp.Refusal.Message, w) {
				t.Errorf("%s: %q does not say %q", tt.reason, resp.Refusal.Message, w)
			}
		}
	}
}

func TestNewStoreReplacesTheOneThatDied(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.lease("eu", shop)
	old := d.session("eu")
	resp := d.sync("eu", replacing("new-store", "eu-store"))
	if resp.Refusal != nil || resp.Session <= old || resp.First {
		t.Fatalf("have %+v", resp)
	}
	if _, held := d.l.Account(shop).Holding("eu"); held {
		t.Error("the lease of the old store survived it")
	}
	late := d.sync("eu") // still the old store
	if late.Refusal == nil || late.Refusal.Code != quota.RefusedSecondStore {
		t.Errorf("a late sync of the old store: have %+v", late)
	}
}

func TestDropEndsTheSessionAtOnce(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.lease("eu", shop)
	old := d.session("eu")
	drop := func(r *quota.SyncRequest) { r.Drop, r.Session = true, old }
	req := d.request("eu", drop)
	before := d.term.Receive(d.at(), d.l, req)

	// Another agent of the region asks while the end is on its way.
	other := d.request("eu", by("eu-2"))
	d.term.Receive(d.at(), d.l, other)
	if resp := d.term.Answer(d.at(), d.at(), d.l, other); resp.Refusal == nil || resp.Refusal.Code != quota.RefusedBusy {
		t.Errorf("renewed a session whose end is proposed: %+v", resp)
	}

	d.commit(before...)
	resp := d.term.Answer(d.at(), d.at(), d.l, req)
	if resp.Session <= old {
		t.Errorf("have session %d, want one after %d", resp.Session, old)
	}
	// The same request again, late: the new session is not harmed.
	if again := d.sync("eu", drop); again.Session != resp.Session {
		t.Errorf("a late drop: have %+v, want session %d", again, resp.Session)
	}
}

// An agent that leaves renews nothing. The session ends when nobody renews it:
// other agents, out of touch with the coordinator, may be using it until then.
// Only when the store has dropped it may it end at once.
func TestLeaving(t *testing.T) {
	leaving := func(r *quota.SyncRequest) { r.Leaving = true }
	d := newDesk(t, thousand, "eu", "us")
	d.lease("eu", shop)
	id := d.session("eu")
	d.wait(2 * time.Second)
	if resp := d.sync("eu", leaving); resp.Refusal != nil || resp.Session != 0 {
		t.Errorf("have %+v", resp)
	}
	d.wait(8 * time.Second)
	if d.session("eu") != id {
		t.Fatal("ended before its time")
	}
	d.wait(2 * time.Second)
	if d.session("eu") != 0 {
		t.Fatal("leaving renewed the session")
	}
	if d.sync("eu", leaving); d.session("eu") != 0 {
		t.Fatal("leaving opened a session")
	}

	d.sync("eu")
	id = d.session("eu")
	d.sync("eu", leaving, func(r *quota.SyncRequest) { r.Drop, r.Session = true, id })
	if d.session("eu") != 0 {
		t.Error("a session that the store has dropped lives on")
	}
}

func TestK73SessionEndsInTime(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.sync("eu")
	start := d.now
	for d.session("eu") != 0 {
		d.wait(50 * time.Millisecond)
		if d.now-start > 20*quota.Second {
			t.Fatal("never ended")
		}
	}
	if life := (d.now - start).Duration(); life < 11*time.Second || life > 11*time.Second+100*time.Millisecond {
		t.Errorf("session lived %v, want TTL + guard = 11s", life)
	}
}

// A renewal counts from the leadership check, however late the answer is made.
func TestK79RenewalCountsFromTheCheck(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	req := d.request("eu")
	d.term.Receive(d.at(), d.l, req)
	checked := d.at()
	d.now += 5 * quota.Second
	d.term.Answer(d.at(), checked, d.l, req)
	d.wait(5900 * time.Millisecond)
	if d.session("eu") == 0 {
		t.Error("ended before TTL + guard from the check")
	}
	d.wait(200 * time.Millisecond)
	if d.session("eu") != 0 {
		t.Error("lived longer than TTL + guard from the check")
	}
}

// From the proposal of the end on, nothing renews the session, whether the
// outcome is known or not.
func TestEndProposedIsNeverRenewed(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.wait(10900 * time.Millisecond)
	req := d.request("eu")
	d.now += 200_000
	ops, _, _ := d.term.Next(d.at(), d.l)
	if !has(ops, func(e ledger.EndSession) bool { return e.Region == "eu" }) {
		t.Fatalf("no end proposed: %v", ops)
	}
	busy := func(when string) {
		t.Helper()
		d.term.Receive(d.at(), d.l, req)
		if resp := d.term.Answer(d.at(), d.at(), d.l, req); resp.Refusal == nil || resp.Refusal.Code != quota.RefusedBusy {
			t.Errorf("%s: have %+v", when, resp)
		}
	}
	busy("while the end is open")
	d.term.Done(d.at(), d.l, ops, nil)
	busy("while its outcome is unknown")
	d.round()
	if d.session("eu") != 0 {
		t.Fatal("the end was not proposed again")
	}
	if resp := d.sync("eu"); resp.Refusal != nil {
		t.Errorf("no new session: %+v", resp)
	}
}

func TestSilentSessionIsRenewedOnlyUnmarked(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.term.Gone(d.at(), "eu", "eu-1")
	d.now += 2100 * 1000
	ops, _, _ := d.term.Next(d.at(), d.l)
	if !has(ops, func(m ledger.MarkSilent) bool { return m.Region == "eu" && m.Silent }) {
		t.Fatalf("not marked: %v", ops)
	}
	req := d.request("eu")
	busy := func(when string) {
		t.Helper()
		if resp := d.term.Answer(d.at(), d.at(), d.l, req); resp.Refusal == nil || resp.Refusal.Code != quota.RefusedBusy {
			t.Errorf("%s: have %+v", when, resp)
		}
	}
	before := d.term.Receive(d.at(), d.l, req)
	busy("while the mark is open")
	d.term.Done(d.at(), d.l, before, d.commit(before...))
	busy("while the mark is open and was cleared before it came")
	d.term.Done(d.at(), d.l, ops, nil)
	busy("while the mark may be in the log")
	d.term.Done(d.at(), d.l, before, d.commit(before...))
	busy("while the mark may come after it was cleared")
	d.round()
	busy("while the mark stands")
	d.commit(d.term.Receive(d.at(), d.l, req)...)
	if resp := d.term.Answer(d.at(), d.at(), d.l, req); resp.Refusal != nil {
		t.Errorf("unmarked: have %+v", resp)
	}
}

// An idle agent renews in the middle of a TTL: that must not cost log entries.
func TestIdleConnectedRegionIsNotMarked(t *testing.T) {
	d := newDesk(t, thousand, "eu")
	for range 10 {
		d.sync("eu")
		d.wait(6 * time.Second)
	}
	if len(d.ops) != 0 {
		t.Errorf("have %v", d.ops)
	}
	if d.ticks < 55 || d.ticks > 62 {
		t.Errorf("have %d ticks in a minute", d.ticks)
	}
}

// K70: a dead region's quota is not kept alive by elections. K74: expiries go on
// under every leader.
func TestK70K74ElectionsDoNotKeepTheDead(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.lease("eu", shop)
	d.term.Gone(d.at(), "eu", "eu-1")
	start, ended := d.now, quota.Micros(0)
	for range 5 {
		for range 60 {
			d.wait(100 * time.Millisecond)
			d.sync("us")
			if ended == 0 && d.session("eu") == 0 {
				ended = d.now - start
			}
		}
		d.elect()
		d.sync("us")
	}
	// Two seconds until the mark, one more TTL + guard, and what elections cost.
	if ended == 0 || ended > 15*quota.Second {
		t.Errorf("reclaimed after %v, want at most 15s", ended.Duration())
	}
	if d.session("us") == 0 {
		t.Error("the living region lost its session")
	}
}

func TestK71SilenceIsRememberedByEveryLeader(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.term.Gone(d.at(), "eu", "eu-1")
	d.wait(3 * time.Second) // marked after 2 s
	left := []quota.Micros{}
	for range 4 {
		d.elect()
		left = append(left, d.term.Contacts(0)[0].Left)
		d.wait(2 * time.Second)
	}
	want := []quota.Micros{10, 8, 6, 4}
	for i := range want {
		if diff := left[i] - want[i]*quota.Second; diff < -quota.Second/10 || diff > quota.Second/10 {
			t.Errorf("leader %d gives the silent session %v, want about %ds", i+1, left[i].Duration(), want[i])
		}
	}
}

func TestK72LeaseSurvivesAnElection(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	h, id := d.lease("eu", shop), d.session("eu")
	d.now += 2 * quota.Second
	d.elect()
	d.sync("eu")
	d.wait(5 * time.Second)
	d.sync("eu")
	d.wait(3 * time.Second)
	now, _ := d.l.Account(shop).Holding("eu")
	if d.session("eu") != id || !reflect.DeepEqual(now, h) {
		t.Errorf("have session %d %+v, want %d %+v", d.session("eu"), now, id, h)
	}
}

func TestK68AssignmentsGoToAnotherAgent(t *testing.T) {
	d := newDesk(t, thousand, "eu", "us")
	d.sync("eu", by("eu-2"))
	d.sync("eu", by("eu-1"), uses(greedy(shop)))
	d.round()
	pushes := d.term.Push(d.at(), d.l)
	if len(pushes) != 1 || pushes[0].Agent != "eu-1" || len(pushes[0].Assignments) != 1 {
		t.Fatalf("have %+v, want one for the agent that reported the key", pushes)
	}
	if again := d.term.Push(d.at(), d.l); again != nil {
		t.Errorf("pushed twice: %+v", again)
	}
	if resp := d.sync("eu", by("eu-2")); len(resp.Assignments) != 0 {
		t.Errorf("the other agent got %+v", resp.Assignments)
	}
	d.now += 300_000
	want := pushes[0].Assignments
	if resp := d.sync("eu", by("eu-1")); !slices.Equal(resp.Assignments, want) {
		t.Errorf("not repeated: %+v", resp.Assignments)
	}
	d.term.Gone(d.at(), "eu", "eu-1")
	if p := d.term.Push(d.at(), d.l); len(p) != 1 || p[0].Agent != "eu-2" || !slices.Equal(p[0].Assignments, want) {
		t.Errorf("after eu-1 has gone: %+v", p)
	}
	d.sync("eu", by("eu-1"), uses(greedy(shop)))
	d.now += 2100 * 1000
	if resp := d.sync("eu", by("eu-2")); !slices.Equal(resp.Assignments, want) {
		t.Errorf("eu-1 is not heard of for 2 s: eu-2 got %+v", resp.Assignments)
	}
	// Applied twice and reported twice counts once.
	d.sync("eu", by("eu-2"), applies(want))
	d.sync("eu", by("eu-1"), applies(want))
	d.round()
	if n := count[ledger.Confirm](d.ops); n != 1 {
		t.Errorf("have %d confirms, want 1", n)
	}
}

// A report brings demand and confirmations, and no session lives on it.
func TestReportsRenewNothing(t *testing.T) {
	d := newDesk(t, thousand, "ap", "eu")
	d.sync("eu")
	until := d.term.regions["eu"].until
	d.now += quota.Second
	r := d.request("eu", func(r *quota.SyncRequest) {
		r.Seq = 0
		r.Usage = []quota.Usage{{Key: shop, Window: time.Second, Denied: 500 * quota.Token, Burst: quota.Token}}
	})
	d.term.Report(d.at(), d.l, r)
	if have := d.term.regions["eu"].until; have != until {
		t.Errorf("the session lives until %v, want %v as before", have, until)
	}
	if e := d.term.book.entries[shop]; e == nil || e.demand("eu") == nil {
		t.Error("the demand is not in the book")
	}
	for reason, r := range map[string]quota.SyncRequest{
		"another cluster": d.request("eu", func(r *quota.SyncRequest) { r.Cluster = "prod" }),
		"another store":   d.request("eu", replacing("new-store", "")),
		"nobody's region": d.request("mars"),
	} {
		r.Seq, r.Usage = 0, []quota.Usage{{Key: "shop|user=bob", Window: time.Second, Denied: quota.Token}}
		d.term.Report(d.at(), d.l, r)
		if d.term.book.entries["shop|user=bob"] != nil {
			t.Errorf("%s: its demand counts", reason)
		}
	}
}
