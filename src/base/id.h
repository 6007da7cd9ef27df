// Ids that cove generates, and the grammars of names that users choose.
#pragma once

#include <stdbool.h>

#include "base/str.h"

#define ID_BOX_LEN 52	// "box-" and 48 hex digits
#define ID_SHORT_LEN 12 // the first hex digits of a box id
#define ID_NAME_MAX 62

void id_box(char out[ID_BOX_LEN + 1]); // random
// Exactly the form above, or the same with the prefix of a derived id (types/owner.h).
bool id_is_box(struct str s);
void id_volume(char out[ID_BOX_LEN + 1]); // "vol-" and 48 hex digits: as long as a box's
bool id_is_volume(struct str s);
bool id_is_short(struct str s); // 12 to 48 hex digits
// [a-z0-9][a-z0-9-]{0,61}, and not of the form of an id or a short id.
bool id_is_name(struct str s);
// A template's name: [a-z0-9][a-z0-9._-]{0,62}, without "..".
bool id_is_template(struct str s);
