package quoratev1

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/coordinator/quota"
)

var (
	capacity = quota.Capacity{Rate: quota.Rate{Tokens: quota.Whole(100), Per: 60 * quota.Second}, Burst: quota.MaxTokens}
	request  = quota.SyncRequest{
		Seq: 7, Cluster: "c1", Region: "eu", Agent: "eu-1", Incarnation: quota.Incarnation{ID: "b", Replaces: "a"},
		Session: 3, Drop: true, Config: 9, Leaving: true, Forgot: true,
		Usage: []quota.Usage{{
			Key: "api|user=\xff", Window: 200 * time.Millisecond, Admitted: quota.Token, Denied: 2 * quota.Token,
			Largest: quota.Token, Level: -5, Burst: 8, Epoch: 4,
		}},
		Applied: []quota.Applied{{Key: "api|user=1", Session: 3, Epoch: 4, Surrendered: 11}},
	}
	response = quota.SyncResponse{
		Seq: 7, Cluster: "c1", Session: 3, TTL: 10 * time.Second, First: true, Agents: 2,
		Config: &quota.Config{
			Version: 9, Sources: []quota.Source{{Name: "a.yaml", Text: "domain: api"}},
			Shares: quota.Shares{{Region: "eu", Weight: 0}, {Region: "us", Weight: quota.MaxWeight}},
		},
		Assignments: []quota.Assignment{{
			Key: "api|user=1", Session: 3, Epoch: 5, Lease: capacity, Credit: 6, Release: true, Lend: time.Minute, Home: true,
			Loan: &quota.Loan{Capacity: capacity, Credit: 7, Left: time.Second},
		}},
		Lent:    &quota.Lent{Keys: []quota.Key{"api|user=2"}, For: time.Hour},
		Refusal: &quota.Refusal{Code: quota.RefusedSecondStore, Message: "two stores"},
	}
)

func TestEveryFieldSurvivesTheWire(t *testing.T) {
	b, err := proto.Marshal(FromRequest(request))
	if err != nil {
		t.Fatal(err)
	}
	var m SyncRequest
	if err := proto.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if have, err := ToRequest(&m); err != nil || !reflect.DeepEqual(have, request) {
		t.Fatalf("request: want %+v\nhave %+v, %v", request, have, err)
	}
	if have, err := ToResponse(FromResponse(response)); err != nil || !reflect.DeepEqual(have, response) {
		t.Fatalf("response: want %+v\nhave %+v, %v", response, have, err)
	}
	assertAllSet(t, reflect.ValueOf(request), "request")
	assertAllSet(t, reflect.ValueOf(response), "response")
}

// assertAllSet makes the round trip above notice a field that is added to the
// vocabulary and forgotten here. Elements of lists may hold zero values.
func assertAllSet(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s.%s is not covered by the round trip", path, v.Type().Field(i).Name)
		}
	}
}

func TestDecodingRefusesWhatNoPeerSends(t *testing.T) {
	for name, bad := range map[string]func(*SyncRequest){
		"unnumbered request":          func(m *SyncRequest) { m.Seq = 0 },
		"no region":                   func(m *SyncRequest) { m.Region = "" },
		"no agent":                    func(m *SyncRequest) { m.Agent = "" },
		"session beyond exact":        func(m *SyncRequest) { m.Session = 1 << 53 },
		"config beyond exact":         func(m *SyncRequest) { m.Config = 1 << 60 },
		"usage without key":           func(m *SyncRequest) { m.Usage[0].Key = nil },
		"key too long":                func(m *SyncRequest) { m.Usage[0].Key = make([]byte, MaxKeyBytes+1) },
		"negative window":             func(m *SyncRequest) { m.Usage[0].WindowUs = -1 },
		"window overflows a duration": func(m *SyncRequest) { m.Usage[0].WindowUs = 1 << 62 },
		"negative count":              func(m *SyncRequest) { m.Usage[0].DeniedMicrotokens = -1 },
		"count beyond exact":          func(m *SyncRequest) { m.Usage[0].AdmittedMicrotokens = 1 << 53 },
		"level below exact":           func(m *SyncRequest) { m.Usage[0].LevelMicrotokens = -1 << 53 },
		"usage epoch beyond exact":    func(m *SyncRequest) { m.Usage[0].Epoch = 1 << 53 },
		"nil usage":                   func(m *SyncRequest) { m.Usage[0] = nil },
		"applied in no session":       func(m *SyncRequest) { m.Applied[0].Session = 0 },
		"applied no epoch":            func(m *SyncRequest) { m.Applied[0].Epoch = 0 },
		"negative surrender":          func(m *SyncRequest) { m.Applied[0].SurrenderedMicrotokens = -1 },
	} {
		m := FromRequest(request)
		bad(m)
		if _, err := ToRequest(m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: want ErrMalformed, have %v", name, err)
		}
	}
	for name, bad := range map[string]func(*SyncResponse){
		"negative ttl":                  func(m *SyncResponse) { m.TtlUs = -1 },
		"negative agents":               func(m *SyncResponse) { m.Agents = -1 },
		"unsorted shares":               func(m *SyncResponse) { m.Config.Shares[0].Region = "zz" },
		"repeated region":               func(m *SyncResponse) { m.Config.Shares[0].Region = "us" },
		"weight too large":              func(m *SyncResponse) { m.Config.Shares[0].Weight = quota.MaxWeight + 1 },
		"negative credit":               func(m *SyncResponse) { m.Assignments[0].CreditMicrotokens = -1 },
		"negative burst":                func(m *SyncResponse) { m.Assignments[0].Lease.BurstMicrotokens = -1 },
		"rate without period":           func(m *SyncResponse) { m.Assignments[0].Lease.Rate.PerUs = 0 },
		"negative period":               func(m *SyncResponse) { m.Assignments[0].Lease.Rate.PerUs = -1 },
		"lent for less than nothing":    func(m *SyncResponse) { m.Assignments[0].LendUs = -1 },
		"a loan of less than nothing":   func(m *SyncResponse) { m.Assignments[0].Loan.Capacity.BurstMicrotokens = -1 },
		"a loan's credit below nothing": func(m *SyncResponse) { m.Assignments[0].Loan.CreditMicrotokens = -1 },
		"a loan that is over before":    func(m *SyncResponse) { m.Assignments[0].Loan.LeftUs = -1 },
		"lent, no key":                  func(m *SyncResponse) { m.Lent.Keys[0] = nil },
		"lent until before now":         func(m *SyncResponse) { m.Lent.ForUs = -1 },
		"assignment, no epoch":          func(m *SyncResponse) { m.Assignments[0].Epoch = 0 },
	} {
		m := FromResponse(response)
		bad(m)
		if _, err := ToResponse(m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: want ErrMalformed, have %v", name, err)
		}
	}
	if _, err := ToRequest(nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("nil request: want ErrMalformed, have %v", err)
	}
}

func TestAbsurdUsageSaturatesInsteadOfLosingTheRenewal(t *testing.T) {
	r := request
	r.Usage = []quota.Usage{{Key: "k", Window: -1, Admitted: 1 << 60, Denied: -1, Level: -1 << 60}}
	have, err := ToRequest(FromRequest(r))
	want := quota.Usage{Key: "k", Admitted: quota.MaxTokens, Level: -quota.MaxTokens}
	if err != nil || have.Usage[0] != want {
		t.Fatalf("want %+v, have %+v, %v", want, have.Usage, err)
	}
}

func FuzzToRequest(f *testing.F) {
	b, _ := proto.Marshal(FromRequest(request))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m SyncRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		r, err := ToRequest(&m)
		if err != nil {
			return
		}
		if again, err := ToRequest(FromRequest(r)); err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("want %+v\nhave %+v, %v", r, again, err)
		}
	})
}

func FuzzToResponse(f *testing.F) {
	b, _ := proto.Marshal(FromResponse(response))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m SyncResponse
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		r, err := ToResponse(&m)
		if err != nil {
			return
		}
		if again, err := ToResponse(FromResponse(r)); err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("want %+v\nhave %+v, %v", r, again, err)
		}
	})
}
