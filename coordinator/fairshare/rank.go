package fairshare

// Rank is the rendezvous hash of a key and a claimant: it decides who gets the
// remainder, so that over many keys every claimant does equally often, and for
// one key always the same one. Every node computes the same.
func Rank(key, claimant string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h *= prime // a byte zero between the two
	for i := range len(claimant) {
		h = (h ^ uint64(claimant[i])) * prime
	}
	// FNV mixes its last bytes badly into the high bits, which decide here.
	// Source: the finalizer of MurmurHash3.
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
