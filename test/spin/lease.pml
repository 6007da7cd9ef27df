/* The lease and its keeper in small, for spin: what test/unit/types/lease_explore_test.c searches with
 * the real function, said once more in another language, with liveness. One session, one keeper that
 * may crash between any two of look, commit and act, runners that may die, looks and stops that may
 * fail. `make spin` checks the assertions, and that queued work drains or is refused.
 */
#define ATTEMPTS 3	/* five in the table; the number does not matter to the laws */
#define GENERATIONS 4

/* in the order of the table, which is compared below */
#define NONE 0
#define STARTING 1
#define READY 2
#define ACTIVE 3
#define WARM 4
#define STOP_NEEDED 5
#define STOPPING 6
#define QUARANTINED 7

#define ABSENT 0
#define MATCH 1
#define OTHER 2
#define FAILED 3

/* durable */
byte state = NONE;
byte generation = 0, next = 1, attempts = 0;
bool queued = true, accepted = false, settled = false;

/* the machine */
byte alive = 0;		/* how many runners of ours live */
byte live_generation = 0;
byte launched = 0;	/* the highest generation that was ever launched */

/* budgets of bad luck */
byte crashes = 2, faults = 3, deaths = 1;

bool down = false, attached = false;

inline look(seen) {
	if
	:: faults > 0 -> faults--; seen = FAILED
	:: alive == 0 -> seen = ABSENT
	:: alive > 0 && live_generation == generation && state != NONE -> seen = MATCH
	:: alive > 0 && !(live_generation == generation && state != NONE) -> seen = OTHER
	fi
}

inline need_stop() {
	state = STOP_NEEDED; attempts = 0; attached = false;
	if :: accepted -> accepted = false; settled = true :: else fi
}

inline launch() {
	assert(state == STARTING);
	assert(generation > launched);	/* a generation is launched once */
	launched = generation;
	alive++;
	live_generation = generation;
	assert(alive <= 1);		/* never two runners */
	attached = true
}

/* Between a commit and its deed the daemon may die; the deed may happen all the same, or not. */
inline may_crash(lbl) {
	if
	:: crashes > 0 -> crashes--; down = true; attached = false; goto lbl
	:: true
	fi
}

active proctype keeper() {
	byte seen;
turn:
	do
	:: down -> /* reconciliation: before anything is launched */
		look(seen);
		if
		:: state >= STOP_NEEDED || seen == FAILED -> skip
		:: seen == ABSENT && state != NONE && state < STOP_NEEDED ->
			atomic { state = NONE; if :: accepted -> accepted = false; settled = true :: else fi }
		:: seen == MATCH && state < STOP_NEEDED -> attached = true
		:: seen == OTHER && state < STOP_NEEDED -> need_stop()
		:: else -> skip
		fi;
		down = false
	:: !down && queued && (state == NONE || state == WARM ||
			       ((state == STARTING || state == READY) && !attached)) ->
		look(seen);
		if
		:: seen == FAILED -> need_stop()
		:: seen == OTHER -> need_stop()
		:: seen == MATCH && state == WARM -> state = STARTING; attached = true
		:: seen == MATCH && state != WARM -> attached = true
		:: seen == ABSENT && next <= GENERATIONS ->
			atomic {
				if :: accepted -> accepted = false; settled = true :: else fi;
				state = STARTING; generation = next; next++; attached = false
			};
			if /* the crash may come before or after the fork */
			:: crashes > 0 -> crashes--; down = true; goto turn
			:: crashes > 0 -> crashes--; launch(); attached = false; down = true; goto turn
			:: faults > 0 -> faults--; need_stop()	/* it does not start */
			:: launch()
			fi
		:: seen == ABSENT && next > GENERATIONS -> queued = false /* the bound of the model */
		fi
	:: !down && state == STARTING && attached && alive > 0 -> state = READY; may_crash(turn)
	:: !down && state == STARTING && attached && alive == 0 -> need_stop()
	:: !down && state == READY && queued && attached && alive > 0 ->
		atomic { state = ACTIVE; queued = false; accepted = true; settled = false };
		may_crash(turn)
	:: !down && state == READY && (alive == 0 || !queued) -> need_stop()	/* its deadline */
	:: !down && state == STARTING && !attached && !queued -> need_stop()	/* its deadline */
	:: !down && state == ACTIVE && attached && alive > 0 ->
		if
		:: atomic { state = WARM; accepted = false; settled = true }
		:: need_stop()	/* it failed */
		fi;
		may_crash(turn)
	:: !down && state == ACTIVE && (alive == 0 || !attached) -> need_stop()	/* grace is over */
	:: !down && state == WARM && !queued -> need_stop()
	:: !down && state == STOP_NEEDED && attempts < ATTEMPTS ->
		atomic { state = STOPPING; attempts++ };
		if
		:: crashes > 0 -> crashes--; down = true; goto turn
		:: crashes > 0 -> crashes--; alive = 0; down = true; goto turn
		:: faults > 0 -> faults--; state = STOP_NEEDED
		:: alive = 0; assert(alive == 0); state = NONE	/* absence before none */
		fi
	:: !down && state == STOP_NEEDED && attempts >= ATTEMPTS -> state = QUARANTINED
	:: !down && state == STOPPING -> state = STOP_NEEDED	/* after a crash: its deadline */
	:: !down && state == QUARANTINED ->
		look(seen);
		if
		:: seen == ABSENT -> state = NONE
		:: else -> queued = false	/* refused: cleanup_exhausted */
		fi
	:: !down && !queued && !accepted && state == NONE -> break
	od
}

active proctype fate() {
	do
	:: atomic { alive > 0 && deaths > 0 -> deaths--; alive = 0 }
	:: deaths == 0 -> break
	:: true -> break
	od
}

/* What always holds, whenever one looks. */
active proctype laws() {
end_well:
	atomic {
		!(alive <= 1 && (state != NONE || alive == 0) && !(accepted && queued) && generation < next) ->
		assert(false)
	}
}

ltl drains { <> (!queued) }
