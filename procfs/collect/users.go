package collect

import (
	"os/user"
	"strconv"
)

// Users turns user IDs into names, each looked up once. It is for one
// goroutine at a time; the zero value is for use.
type Users struct{ names map[uint32]string }

// Name returns the user's name by /etc/passwd, or the number where it has none.
func (u *Users) Name(uid uint32) string {
	if name, ok := u.names[uid]; ok {
		return name
	}
	if u.names == nil {
		u.names = make(map[uint32]string)
	}
	name := strconv.FormatUint(uint64(uid), 10)
	if found, err := user.LookupId(name); err == nil {
		name = found.Username
	}
	u.names[uid] = name
	return name
}
