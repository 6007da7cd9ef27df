// Code in a sandbox: a file, or an interactive prompt.
#pragma once

#include "cli/call.h"

fallible code_run(struct call *call);	 // cove run-code
fallible code_python(struct call *call); // cove python
fallible code_node(struct call *call);	 // cove js
