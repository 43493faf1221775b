package rpc

import (
	"strings"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// keyOf returns the key under which a limit counts a descriptor. Of a limit that counts
// in windows it is that of the newest one with an account, since the coordinator has no
// clock that says which one the agents are in; without any, that of some window.
func keyOf(v View, rule *rules.Rule, domain string, entries []rules.Entry, i int) quota.Key {
	k := rule.Key(domain, entries, i)
	if !rule.Limits[i].Windowed() {
		return k
	}
	newest := rule.WindowKey(domain, entries, i, rule.Limits[i].AnyWindow())
	found := rules.Window{}
	v.Ledger.Accounts(func(a *ledger.Account) bool {
		if !strings.HasPrefix(string(a.Key), string(k)) {
			return true
		}
		if w := rules.WindowOf(a.Key); rule.WindowKey(domain, entries, i, w) == a.Key && (found.IsZero() || w.Start > found.Start) {
			newest, found = a.Key, w
		}
		return true
	})
	return newest
}
