// Names of another API in the form of cove's. Text that is no name of cove is kept as "dn--" and
// its bytes: a-z and 0-9 as they are, a hyphen as two, any other as a hyphen and two hex digits.
// Each text has one form, and each form is of one text.
#pragma once

#include "base/id.h"

#define FOREIGN_NAME_PREFIX "dn--"
#define FOREIGN_NAME_MAX ID_NAME_MAX

// `is_own`: id_is_name(), or id_is_template(). False: the text is empty, has control characters or
// the form of a sandbox's id, or its form is too long.
bool foreign_name_write(struct str text, bool (*is_own)(struct str name),
			char out[FOREIGN_NAME_MAX + 2]);
// The text of a name, which is the name itself unless it is such a form.
void foreign_name_read(const char *name, bool (*is_own)(struct str name),
		       char out[FOREIGN_NAME_MAX + 2]);
