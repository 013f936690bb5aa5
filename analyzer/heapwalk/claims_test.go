package heapwalk

import "testing"

// Every block that a program has is allocated, none that it freed is, and one of
// another size is not the one that was asked about.
func TestClaims(t *testing.T) {
	program := buildTruth(t)
	for name, tunables := range map[string]string{"default": "", "all_mmap": "glibc.malloc.mmap_threshold=4096", "no_tcache": "glibc.malloc.tcache_count=0"} {
		t.Run(name, func(t *testing.T) {
			c := startTruth(t, program, []string{"GLIBC_TUNABLES=" + tunables})
			var claims []Claim
			for addr, size := range c.blocks {
				claims = append(claims, Claim{Addr: addr, Size: size}, Claim{Addr: addr, Size: 3*size + 3*pageBytes})
			}
			for addr := range c.freed {
				if _, again := c.blocks[addr]; !again {
					claims = append(claims, Claim{Addr: addr, Size: 100})
				}
			}
			if _, err := Judge(c.process, Options{Lost: true}, claims); err != nil {
				t.Fatal(err)
			}
			again := 0 // given to the C library meanwhile, which has a block for each of the three threads
			for _, claim := range claims {
				want := Freed
				if size, live := c.blocks[claim.Addr]; live && size == claim.Size {
					want = Allocated
				}
				if claim.State == want {
					continue
				}
				if again++; want != Freed || c.blocks[claim.Addr] != 0 || again > 3 {
					t.Errorf("block %#x of %d bytes: %d, want %d", claim.Addr, claim.Size, claim.State, want)
				}
			}
		})
	}
}

// Where part of the heap can't be gone through, what lies there stays unknown.
func TestClaimsInForeignMemory(t *testing.T) {
	c := startTruth(t, buildTruth(t), nil, "sbrk")
	heap := walk(t, c)
	var claims []Claim
	for i, gap := range heap.gaps {
		if gap {
			claims = append(claims, Claim{Addr: heap.arenas[i].end - 64, Size: 24}, Claim{Addr: heap.arenas[i].end - 8, Size: 8})
		}
	}
	if len(claims) == 0 {
		t.Fatal("all of the heap was gone through")
	}
	if _, err := Judge(c.process, Options{Lost: true}, claims); err != nil {
		t.Fatal(err)
	}
	for _, claim := range claims {
		if claim.State != Unknown {
			t.Errorf("what is at %#x: %d, want unknown", claim.Addr, claim.State)
		}
	}
}
