package znode

import (
	"strings"
)

// validPath reports whether a node may have this path. Mirrors PathUtils.validatePath of ZooKeeper 3.4, with the limits of
// its ranges of characters.
func validPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if path == "/" {
		return true
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
		for _, r := range part {
			switch {
			case r == 0, r < 0x1f, r > 0x7f && r < 0x9f, r > 0xd800 && r < 0xf8ff, r > 0xfff0 && r < 0xffff, r > 0xffff:
				return false
			}
		}
	}
	return true
}

// special reports whether a path is one that is always there (ZKDatabase.isSpecialPath).
func special(path string) bool {
	return path == "/" || path == "/zookeeper" || path == "/zookeeper/quota"
}

// split cuts a path into its parent's and its own name. The parent of "/a" is "/".
func split(path string) (parent, name string) {
	at := strings.LastIndexByte(path, '/')
	if at <= 0 {
		return "/", path[at+1:]
	}
	return path[:at], path[at+1:]
}

// below is the path of a child.
func below(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}
