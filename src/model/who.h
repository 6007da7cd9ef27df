// Who asks. A door finds it out once; everything behind the door is handed it as a parameter.
#pragma once

enum who_role {
	WHO_NOBODY,
	WHO_OPERATOR, // holds the key of the data directory: may do everything
};

struct who {
	enum who_role role;
	const char *name; // for the log
};
