#!/bin/sh
# Checks what the test programs say of themselves against an independent
# counter (libcount_calls.so) and, for live blocks, against Valgrind where that is installed.
#   usage: check_answers.sh BUILD_DIR
set -eu
dir=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

# total FIELD FILE: a field of the answer's "total".
total() { sed -n 's/.*"total":{\([^}]*\)}.*/\1/p' "$2" | tail -1 | tr ',' '\n' | sed -n "s/^\"$1\":\([0-9]*\)$/\1/p"; }
# counted CALLER FIELD FILE: a field of the counter's report.
counted() { sed -n "s/^$1 //p" "$3" | tr ' ' '\n' | sed -n "s/^$2=//p"; }

# exceptions: how many exception objects libstdc++ made and freed. At least one
# a throw; a nothrow operator new that fails throws and catches one inside, in some versions.
exceptions() {
	excess=$(($(counted cxx free "$tmp/counted") + $(counted main free "$tmp/counted") - $(total free "$tmp/answer")))
	[ "$excess" -ge "${throws:-0}" ] && echo "$excess" || echo "${throws:-0}"
}

check() { # program caller extra_allocs args...
	program=$1 caller=$2 extra=$3
	shift 3
	COUNT_CALLS_OUT=$tmp/counted LD_PRELOAD=$dir/libcount_calls.so "$dir/$program" run "$@" >"$tmp/answer"
	throws=$(sed -n 's/.*"throws":\([0-9]*\).*/\1/p' "$tmp/answer")
	for field in alloc realloc realloc_fresh realloc_freed failed realloc_failed free free_null alloc_bytes realloc_bytes; do
		want=$(total $field "$tmp/answer")
		got=$(counted "$caller" $field "$tmp/counted")
		case $field in
		alloc | free) # malloc of the program itself, plus what libstdc++ made for it
			[ "$caller" = cxx ] && got=$((got + $(counted main $field "$tmp/counted") - $(exceptions)))
			[ $field = alloc ] && got=$((got - extra)) ;;
		alloc_bytes) # an exception's size is libstdc++'s affair
			[ "$caller" = cxx ] && continue ;;
		esac
		if [ "$want" != "$got" ]; then
			echo "FAIL $program: $field: it says $want, counted $got"
			bad=1
		fi
	done
	# Live blocks: what came less what went.
	if [ "$(total live_count "$tmp/answer")" != \
		$(($(total alloc "$tmp/answer") + $(total realloc_fresh "$tmp/answer") - $(total realloc_freed "$tmp/answer") - $(total free "$tmp/answer"))) ]; then
		echo "FAIL $program: live_count does not follow from its own counts"
		bad=1
	fi
	[ $bad = 1 ] || echo "ok   $program"
}

check every_function main 0
check two_threads main 0
check cross_thread_free main 0
check temporary main 0
check churn main 0 20 2 0 100000
check touch main 0
check escape main 0
# libstdc++ makes one block for itself as it starts: its emergency pool.
check longjmp_throw cxx 1
check cxx_containers cxx 1 5 500

# Valgrind stops at pvalloc, so every_function is not for it.
if command -v valgrind >/dev/null; then
	for program in two_threads cross_thread_free temporary; do
		valgrind --leak-check=no --log-file="$tmp/valgrind" "$dir/$program" run >"$tmp/answer"
		want="$(total live_bytes "$tmp/answer") bytes in $(total live_count "$tmp/answer") blocks"
		got=$(sed -n 's/.*in use at exit: //p' "$tmp/valgrind" | tr -d ,)
		if [ "$want" = "$got" ]; then
			echo "ok   $program (Valgrind)"
		else
			echo "FAIL $program: it says $want, Valgrind $got"
			bad=1
		fi
	done
fi
exit $bad
