// What a database must be able to do to stand behind store/db.h. One table of functions each;
// transactions are plain SQL ("BEGIN", "SAVEPOINT deed", "COMMIT") and need no function.
#pragma once

#include "store/db.h"

struct db_driver {
	const char *word; // "sqlite"
	// The state `name` in the directory `dir`, made if need be; dir -1: in memory. Where it
	// cannot be written it is opened for reading (db->read_only). UNAVAILABLE state_unwritable:
	// not even that; state_corrupt: it is none. Blocks.
	fallible (*open)(int dir, const char *name, struct db **out);
	// Another connection, for reading, beside the one that writes. It sees what was committed,
	// and nobody waits for it. UNAVAILABLE state_unwritable: there can be none.
	fallible (*open_beside)(int dir, const char *name, struct db **out);
	fallible (*check)(struct db *db); // state_corrupt; looks no further than a start may take
	// `sql` is kept by its address. *out is the driver's own, ready to be bound.
	fallible (*prepare)(struct db *db, const char *sql, void **out);
	void (*release)(struct db *db, void *statement); // for the next question of that text
	void (*put_int)(void *statement, int at, int64_t value);
	void (*put_text)(void *statement, int at, struct str text); // at == NULL: null
	void (*put_bytes)(void *statement, int at, const void *bytes, size_t len);
	fallible (*step)(struct db *db, void *statement, bool *out_row);
	uint64_t (*touched)(struct db *db, void *statement);
	bool (*take_int)(void *statement, int at, int64_t *out); // false: it is no number
	bool (*take)(void *statement, int at, struct str *out);	 // false: it is no text, no bytes
	fallible (*script)(struct db *db, const char *sql);
	uint64_t (*bytes)(struct db *db); // of its files
	void (*close)(struct db *db);
};

struct db { // the beginning of every driver's own
	const struct db_driver *driver;
	bool read_only; // it could be opened, but not for writing
};

void db_close(struct db *db); // NULL: harmless
uint64_t db_bytes(struct db *db);
fallible db_corrupt(void); // the error of that name
