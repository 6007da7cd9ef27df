// Who asks. A door finds it out once; everything behind the door is handed it as a parameter.
#pragma once

enum who_role {
	WHO_NOBODY,
	WHO_OPERATOR, // holds the key of the data directory: may do everything
	WHO_BOX,      // holds the credential of one sandbox: may work in that one
};

struct who {
	enum who_role role;
	const char *name; // for the log
	const char *box;  // WHO_BOX: the id
};
