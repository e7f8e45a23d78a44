package host

import "testing"

// Measuring takes its share of the time, neither more nor much less, after a long pause
// too, and whatever a few measurements that were interrupted seemed to take.
func TestBudget(t *testing.T) {
	for _, every := range []int64{100, 5_000, 1_000_000} { // ns between two chances
		b := Budget{Share: 0.01}
		var cost Cost
		b.Earn(1e12, cost.Of(1))
		var spent, time float64
		measured := 0
		for range 100_000 {
			time += float64(every)
			b.Earn(every, cost.Of(1))
			if !b.Covers(cost.Of(1)) {
				continue
			}
			took := int64(1000)
			if measured++; measured < few || measured%50 == 0 {
				took = 1e9
			}
			cost.See(took)
			b.Spend(cost.Of(1))
			spent += 1000
		}
		if spent > 0.0101*time+2000 {
			t.Errorf("every %d ns: %.2f %% goes to measuring", every, 100*spent/time)
		}
		if want := min(0.005*time, 1000*90_000); spent < want {
			t.Errorf("every %d ns: %.0f measurements, %.0f at least are paid for", every, spent/1000, want/1000)
		}
	}
}
