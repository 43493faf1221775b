package play

import "time"

// What a run does to the assumptions of the Bound is noted here, and nowhere else:
// see conductor.allowed for what it may cost.

// lasted notes for how long regions were without the coordinators.
func (c *conductor) lasted(d time.Duration, regions ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range regions {
		c.away[r] = append(c.away[r], d)
	}
}

// settling is how long an agent may owe something to a store that is back.
const settling = 2 * time.Second

// storeGone notes that the store of a region is away until storeBack.
func (c *conductor) storeGone(region string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back[region] = time.Now().Add(longest)
}

func (c *conductor) storeBack(region string, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back[region] = time.Now()
	c.outages[region] += after
}

// killed notes that an agent of a region has died, with what it owed to its store.
func (c *conductor) killed(region string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.back[region]) < settling {
		c.owing[region]++
	}
}
