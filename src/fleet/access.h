// Who may do what: asked once, here, before anything is looked up, whatever the door.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "model/who.h"

enum access {
	ACCESS_READ,	  // see sandboxes and templates
	ACCESS_MAKE,	  // create and delete sandboxes
	ACCESS_USE,	  // run commands in them
	ACCESS_TEMPLATES, // add and remove templates
};

// FORBIDDEN not_allowed.
fallible access_ask(const struct who *who, enum access what);
// Whether that sandbox is among those that `who` may know of.
bool access_sees(const struct who *who, const char *box);
