// A unit is a long-lived process of a box with its record: a background process, a terminal, a
// shell session or an interpreter. All of them share what is here: the table by id with its bound,
// references, the tape, file numbers, adoption by the next daemon. Their differences are a row of
// functions, struct unit_kind.
#pragma once

#include "box/adoption.h"

struct repl_kind; // box/repl.h
struct unit;

enum unit_use {
	UNIT_OVER, // no process
	UNIT_IDLE, // its process does not keep the box from a freeze
	UNIT_BUSY, // as UNIT_IDLE, but it does; also without a process yet
};

struct unit_kind {
	const char *name; // for errors
	enum unit_type type;
	enum exec_label_kind label;   // of its process
	char letter;		      // of its file in the box's folder: a tape or a state file
	char tape_letter;	      // of its tape, if the other is a state file; 0: none
	uint32_t max;		      // listed at once; 0: no bound
	bool is_recorded;	      // its record outlives the run of the box
	bool outlives_box;	      // a holder may read it after the box is freed
	bool needs_file;	      // a process without a file is not adopted
	const struct repl_kind *repl; // NULL: it has no queue
	enum unit_use (*use)(const struct unit *unit); // NULL: UNIT_BUSY while its exec runs
	bool (*evict)(struct unit *unit);	       // for a new one; unlists it. False: in use
	void (*free)(struct unit *unit); // no references are left; ends with unit_done()
	// Adopts a unit by its file, and by what pid 1 holds (NULL: nothing). Waits.
	fallible (*adopt)(struct adoption *adoption, uint32_t file, struct adoptee *held);
	fallible (*adopt_rest)(struct adoption *adoption); // after all files; NULL: nothing to do
	void (*abandon)(struct unit *unit); // adoption failed: its files stay. NULL: nothing to do
};
extern const struct unit_kind proc_kind, term_kind, session_kind, context_kind;

// The first member of each unit.
struct unit {
	const struct unit_kind *kind;
	struct box *box; // held; of a kind that outlives the box: not held, NULL once unlisted
	struct loop *loop;
	struct link link; // box->units[].all, in order of creation
	int refs;	  // the table, callers, runs, tasks
	bool listed;
	uint32_t file; // the number of its file; 0: the next daemon will not know the unit
	char *id;
	struct tape *tape;
	struct condition changed;
};

// The caller has the only reference.
void unit_init(struct unit *unit, const struct unit_kind *kind, struct box *box, struct str id);
void unit_done(struct unit *unit); // frees the unit, whose first member this is
void unit_ref(struct unit *unit);
void unit_unref(struct unit *unit);
// The table takes a reference. False: its id is taken.
bool unit_list(struct unit *unit);
bool unit_unlist(struct unit *unit);	 // drops that reference. False: it was not listed
uint32_t unit_next_file(struct box *box, // a number for `file`; 0 if pid 1 holds nothing for long
			const struct unit_kind *kind);
struct unit *unit_find(struct box *box, const struct unit_kind *kind, struct str id); // held
// Evicts units for a new one if need be. False: the table is full.
bool units_have_room(struct box *box, const struct unit_kind *kind);
#define units_each(var, box, kind) list_each (var, &(box)->units[(kind)->type].all)
#define unit_of(at, type) ((type *)link_of(at, struct unit, link))

// A tape by number, counted in the box's budget; 0: without a name, it ends with the daemon.
struct tape *unit_new_tape(struct box *box, char letter, uint32_t number,
			   const struct tape_label *label);
// *out NULL: no such tape, or nothing was written to it.
fallible unit_open_tape(struct box *box, char letter, uint32_t number, struct tape **out,
			struct tape_label *out_label);

// True if a unit is busy; *out_idle: execs of idle ones.
bool units_are_busy(const struct box *box, uint32_t *out_idle);
fallible units_adopt(struct adoption *adoption, const struct unit_kind *kind);
