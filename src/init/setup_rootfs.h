// How the box gets its root, its disk and all else that an order asks for.
#pragma once

// Waits to be told what the box shall be, and moves in; ends when nobody wants it. NULL, or a word
// for the step that failed, with errno.
const char *setup_rootfs_box(void);
