package probe

import "testing"

// TestReturnAddressesSaved has frame records told from other ways to store x30 on the stack, and from what stores
// something else. The words are those of GNU as for the instructions beside them.
func TestReturnAddressesSaved(t *testing.T) {
	for _, c := range []struct {
		word uint32
		text string
		want saved
	}{
		{0xa9be7bfd, "stp x29, x30, [sp, #-32]!", inRecord},
		{0xa9017bfd, "stp x29, x30, [sp, #16]", inRecord},
		{0xa8817bfd, "stp x29, x30, [sp], #16", inRecord},
		{0xa9bf4ffe, "stp x30, x19, [sp, #-16]!", elsewhere},
		{0xa9017bf3, "stp x19, x30, [sp, #16]", elsewhere},
		{0xf81f0ffe, "str x30, [sp, #-16]!", elsewhere},
		{0xf90007fe, "str x30, [sp, #8]", elsewhere},
		{0xf81f83fe, "stur x30, [sp, #-8]", elsewhere},
		{0xa900781d, "stp x29, x30, [x0]", unsaved},
		{0xf900003e, "str x30, [x1]", unsaved},
		{0xa90153f3, "stp x19, x20, [sp, #16]", unsaved},
		{0xa8c27bfd, "ldp x29, x30, [sp], #32", unsaved},
		{0xf84107fe, "ldr x30, [sp], #16", unsaved},
		{0xf94007fe, "ldr x30, [sp, #8]", unsaved},
		{0xf90007e0, "str x0, [sp, #8]", unsaved},
		{0x6dbf27e8, "stp d8, d9, [sp, #-16]!", unsaved},
		{0xb9000bfe, "str w30, [sp, #8]", unsaved},
	} {
		if got := savesARM64(c.word); got != c.want {
			t.Errorf("%s is %d, want %d", c.text, got, c.want)
		}
	}
}
