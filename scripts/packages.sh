# Installing system packages where that is allowed; to be sourced. Nothing here asks for a password.

# The system's package manager, by the command to call; fails where there is none that we know.
package_manager() {
    for manager in apt-get dnf apk zypper pacman brew; do
        if command -v "$manager" >/dev/null 2>&1; then
            echo "$manager"
            return
        fi
    done
    return 1
}

# Whether packages may be installed: by root, by sudo without a password, or by Homebrew, which is the user's own.
may_install() {
    case "$(package_manager)" in
        "") return 1 ;;
        brew) return 0 ;;
        *) [ "$(id -u)" = 0 ] || sudo -n true >/dev/null 2>&1 ;;
    esac
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Installs the packages named; what the package manager says goes to stderr.
install_packages() {
    echo "Installing $* with $(package_manager)." >&2
    case "$(package_manager)" in
        apt-get) as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" ;;
        dnf) as_root dnf install -q -y "$@" ;;
        apk) as_root apk add -q "$@" ;;
        zypper) as_root zypper -q --non-interactive install "$@" ;;
        pacman) as_root pacman -S --noconfirm --needed "$@" ;;
        brew) brew install --quiet "$@" ;;
        *) return 1 ;;
    esac >&2
}
