// The user of a command: the word of the request, looked up in the box's own /etc/passwd.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define USER_ID_MAX 65535 // the ids that a box has
#define USER_NAME_MAX 64
#define USER_HOME_MAX 1024
#define USER_GROUPS_MAX 32

struct user {
	uint32_t uid, gid;
	uint32_t group_count;		  // 1 at least
	uint32_t groups[USER_GROUPS_MAX]; // for setgroups(): gid first
	char name[USER_NAME_MAX + 1];
	char home[USER_HOME_MAX + 1];
};

// `word` is "", or "name" or "uid", optionally followed by ":group" or ":gid". False: no such user
// or group, or ids that the box does not have. Without a group the user gets those that list it in
// /etc/group, at most USER_GROUPS_MAX; root has only its own. With `with_home` the name and the
// home directory are looked up too; "/" if unknown. The file is untrusted, and read within bounds.
bool user_find(struct str word, bool with_home, struct user *out);
// The name of an id, or its number. `out` has room for USER_NAME_MAX + 1.
void user_name(uint32_t uid, char *out);
