// The driver interface below store/db.h: one table of functions per database. Transactions are
// plain SQL ("BEGIN", "SAVEPOINT deed", "COMMIT").
#pragma once

#include "store/db.h"

struct db_driver {
	const char *word; // "sqlite"
	// Opens the database `name` in the directory `dir`, creating it if needed; dir -1: in
	// memory. If it cannot be written it is opened read-only (db->read_only). UNAVAILABLE
	// state_unwritable: not even that; state_corrupt: not a database. Blocks.
	fallible (*open)(int dir, const char *name, struct db **out);
	// Opens another connection for reading beside the writer. It sees committed data, and
	// blocks no commit. UNAVAILABLE state_unwritable: not possible.
	fallible (*open_beside)(int dir, const char *name, struct db **out);
	fallible (*check)(
		struct db *db); // state_corrupt; bounded to the time that a start may take
	// Caches by the address of `sql`. *out is the driver's statement, ready to be bound.
	fallible (*prepare)(struct db *db, const char *sql, void **out);
	void (*release)(struct db *db, void *statement); // for the next query of that text
	void (*put_int)(void *statement, int at, int64_t value);
	void (*put_text)(void *statement, int at, struct str text); // at == NULL: null
	void (*put_bytes)(void *statement, int at, const void *bytes, size_t len);
	fallible (*step)(struct db *db, void *statement, bool *out_row);
	uint64_t (*touched)(struct db *db, void *statement);
	bool (*take_int)(void *statement, int at, int64_t *out); // false: not a number
	bool (*take)(void *statement, int at, struct str *out);	 // false: neither text nor bytes
	fallible (*script)(struct db *db, const char *sql);
	uint64_t (*bytes)(struct db *db); // of its files
	void (*close)(struct db *db);
};

struct db { // embedded first in the driver's struct
	const struct db_driver *driver;
	bool read_only; // opened, but not for writing
};

void db_close(struct db *db); // NULL: harmless
uint64_t db_bytes(struct db *db);
fallible db_corrupt(void); // state_corrupt
